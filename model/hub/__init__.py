"""Write a trained model as a folder that transformers loads, without this project."""
