"""The SQL files of scalar macros: small functions of numbers and names.

May need no view.
"""
