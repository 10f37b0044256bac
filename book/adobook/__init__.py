"""Code shared by the notebooks: text, tables, charts and exercises. They import it as `course`."""

from __future__ import annotations

from adobook.exercises import EXERCISES, Exercise, check_exercise, exercise
from adobook.figures import figures, speed_of_light_table
from adobook.filter_charts import (
    speedups_of_devices,
    timeline,
    times_of_application,
    utilisation_plane,
)
from adobook.loads_in_flight import (
    InnerLoop,
    in_flight_chart,
    inner_loop_table,
    inner_loops,
    register_chart,
)
from adobook.models import model_beside_counters, modelled
from adobook.predictions import predicted
from adobook.priorities import possible_gain, priorities, ranks
from adobook.published import Published
from adobook.steps import between, libraries, step
from adobook.strides import stride_chart
from adobook.text import Text, say, table
from adobook.tile_picture import draw_tile_transpose

__all__ = [
    "EXERCISES",
    "Exercise",
    "InnerLoop",
    "Published",
    "Text",
    "between",
    "check_exercise",
    "draw_tile_transpose",
    "exercise",
    "figures",
    "in_flight_chart",
    "inner_loop_table",
    "inner_loops",
    "libraries",
    "model_beside_counters",
    "modelled",
    "possible_gain",
    "predicted",
    "priorities",
    "ranks",
    "register_chart",
    "say",
    "speed_of_light_table",
    "speedups_of_devices",
    "step",
    "stride_chart",
    "table",
    "timeline",
    "times_of_application",
    "utilisation_plane",
]
