"""What texts of cells mean, the same in uploads, predictions and downloads."""
