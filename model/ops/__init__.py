"""How things are computed: one function for each operation, and the engines behind them."""
