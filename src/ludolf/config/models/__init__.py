"""The model catalog, models.json and model selection."""
