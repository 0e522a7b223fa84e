"""Record what made a result: code, packages, and code that changed while a run was trained."""
