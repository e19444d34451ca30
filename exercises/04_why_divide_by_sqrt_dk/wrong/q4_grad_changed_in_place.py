"""The gradient is changed in place

Who calls you may need that array again. Does your code write into it?

grad - average makes a new array; grad -= average writes into the caller's.
"""


def softmax_backward(weights, grad):
    grad -= (weights * grad).sum(axis=-1, keepdims=True)
    grad *= weights
    return grad
