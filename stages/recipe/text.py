"""The text form of recipes: `parse_recipe(print_recipe(recipe)) == recipe`.

    recipe cls for rk3588_npu 1.0
    input %x : f16[1,3,48,192]
    const %conv1.w : f16[16,3,3,3]
    group conv1 on tensor_core tile [1,16,12,96] reduce 27 order [1,2,3] slots 2
      %t1 : f16[1,16,24,96] nc1hwc2/8 = conv(%x, %conv1.w) {dilations=[1,1], ...}  # conv1
      %t2 : f16[1,16,24,96] nc1hwc2/8 at sram+0x0400 size 36864 scoped live [0,2) = relu(%t1)
    group nms on host because "NonMaxSuppression isn't in the operator list of rk3588_npu"
      ...
    output %y

Indented operators belong to the group above them. `# name` at an operator's end is its name;
without it the operator is named as its first result. A line that begins with # is a comment.
"""

from stages.recipe.parser import parse_recipe
from stages.recipe.printer import print_operator, print_recipe, print_value

__all__ = ["parse_recipe", "print_operator", "print_recipe", "print_value"]
