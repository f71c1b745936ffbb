"""Newton steps on the smoothed hinge loss."""
