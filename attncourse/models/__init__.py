"""Small models, each with attention from the ladder inside."""
