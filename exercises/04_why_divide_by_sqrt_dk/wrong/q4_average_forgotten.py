"""The average of the gradient is not subtracted

A gradient of 1 for every weight of a row must move nothing. What does yours give?

Subtract the row's sum of weights * grad from grad.
"""


def softmax_backward(weights, grad):
    return weights * grad
