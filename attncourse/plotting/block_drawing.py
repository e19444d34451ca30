"""The drawing of a Transformer block: a stream that is only ever added to, and two branches.

The one idea: what a block does is seen from where its lines run. The stream passes from top to
bottom; each branch reads it through a norm and adds its result at a circle. The primitives are in
`drawings`.
"""

from __future__ import annotations

from attncourse.plotting.drawings import INK, OUT, QUERY, VALUE, WIDEST, Drawing

__all__ = ["block"]

_STREAM, _RADIUS = 30.0, 9.0  # where the stream runs, and how large a sum is


def block(d_model: int, num_heads: int, num_kv_heads: int, d_ff: int) -> Drawing:
    """Draw one pre-norm block with its residual stream and the sizes of its parts.

    Parameters
    ----------
    d_model, num_heads, num_kv_heads, d_ff : int
        Width of the stream, heads of queries, heads of keys and values, width inside the
        feed-forward layer; at most five digits each.

    Returns
    -------
    Drawing

    Raises
    ------
    ValueError
        If `num_heads` is no multiple of `num_kv_heads`, or a number is too long for its box.
    """
    if num_heads % num_kv_heads:
        raise ValueError(f"num_heads {num_heads} must be a multiple of num_kv_heads {num_kv_heads}")
    heads, widths = (
        f"{num_heads} heads q, {num_kv_heads} k and v",
        f"{d_model} → {d_ff} → {d_model}",
    )
    picture = Drawing(
        WIDEST,
        312,
        f"Tokens of width {d_model} run down a line, the residual stream. A first branch leaves "
        f"it, passes RMSNorm and attention ({heads}), and is added back at a plus. A second branch "
        f"does so with RMSNorm and SwiGLU ({widths}). The stream itself passes no box.",
    )
    picture.label(0, 12, f"tokens (B, L, {d_model})", color=OUT, anchor="start", bold=True)
    _line(picture, (_STREAM, 26), (_STREAM, 116 - _RADIUS))
    _branch(picture, 42, QUERY, "attention", heads, "looks at other tokens")
    _line(picture, (_STREAM, 116 + _RADIUS), (_STREAM, 236 - _RADIUS))
    _branch(picture, 162, VALUE, "SwiGLU", widths, "each token alone")
    picture.arrow((_STREAM, 236 + _RADIUS), (_STREAM, 290), color=OUT, width=4)
    picture.label(0, 302, "the same shape", color=OUT, anchor="start", bold=True)
    return picture


def _branch(picture: Drawing, top: float, color: str, name: str, sizes: str, reach: str) -> None:
    """Draw one branch: read the stream, normalise, compute, add."""
    middle, joins = top + 22, top + 74
    picture.arrow((_STREAM, middle), (66, middle))
    picture.box(66, top + 4, 88, 36, "RMSNorm")
    picture.arrow((154, middle), (182, middle))
    picture.box(182, top, 214, 44, name, sizes, color=color)
    picture.label(60, joins - 13, reach, anchor="start")
    corner = 289, joins
    _line(picture, (289, top + 44), corner, color=INK, width=1.5)
    picture.arrow(corner, (_STREAM + _RADIUS, joins))
    picture.parts.append(
        f'<circle cx="{_STREAM}" cy="{joins}" r="{_RADIUS}" fill="none" stroke="{OUT}"'
        ' stroke-width="2.5"/>'
    )
    _line(picture, (_STREAM - 5, joins), (_STREAM + 5, joins), width=2.5)
    _line(picture, (_STREAM, joins - 5), (_STREAM, joins + 5), width=2.5)


def _line(
    picture: Drawing,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    color: str = OUT,
    width: float = 4.0,
) -> None:
    """Draw a line without a head."""
    (x, y), (to_x, to_y) = start, end
    picture.parts.append(
        f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{color}"'
        f' stroke-width="{width}"/>'
    )
