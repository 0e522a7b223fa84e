"""The HTML report and its figures: reads the views of the results database, computes nothing."""
