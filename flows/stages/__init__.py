"""The stages of a study."""
