"""The promise and its price: unit, guarantee, budget, accounting, noise, ledger."""
