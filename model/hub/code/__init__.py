"""Code that an exported model carries: torch and transformers, and nothing of this project.

`model/hub/folder.py` copies these files into a folder, where transformers imports them from. They
import each other by relative imports alone, which transformers follows.
"""
