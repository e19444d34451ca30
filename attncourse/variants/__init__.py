"""Attention that is not the ladder's: other weights, other neighbourhoods, other costs."""
