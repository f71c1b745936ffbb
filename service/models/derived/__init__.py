"""Files that are made of a model version when somebody asks for them: plots and exports."""
