"""Powers in place of roots."""


def score_variance(head_dim, std_query=1.0, std_key=1.0):
    return (std_query * std_key) ** 2 * head_dim


def scale_for(head_dim, std_query=1.0, std_key=1.0):
    return head_dim**-0.5 / (std_query * std_key)
