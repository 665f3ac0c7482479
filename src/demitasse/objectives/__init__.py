"""Training objectives and losses: pure functions of tensors, without a model."""

from demitasse.objectives.published import AdaptiveLayer as AdaptiveLayer
from demitasse.objectives.published import Espresso as Espresso
from demitasse.objectives.published import EspressoReleased as EspressoReleased
from demitasse.objectives.published import Matryoshka as Matryoshka
from demitasse.objectives.published import Matryoshka2d as Matryoshka2d
from demitasse.objectives.published import Starbucks as Starbucks
from demitasse.objectives.published import TwoDMSE as TwoDMSE
