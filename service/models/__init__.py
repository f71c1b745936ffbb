"""What training leaves: versions of models, their files, cards and aliases."""
