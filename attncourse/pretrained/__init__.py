"""Weights that others have trained, inside the models of this course.

The one idea: a model is its equations and its numbers. The equations are ours, attention included;
the numbers come from a file whose every tensor must find its place. `load` finds the file: in a
folder, in an installed package, or on the Hugging Face hub.
"""

from attncourse.pretrained.generation import generation_options
from attncourse.pretrained.hub_names import published
from attncourse.pretrained.loading import PACKAGES, available, load

__all__ = ["PACKAGES", "available", "generation_options", "load", "published"]
