"""Code shared by the notebooks of the course: text, tables, charts and exercises."""

from __future__ import annotations

from adokernels.course.checking import check_exercise
from adokernels.course.exercises import EXERCISES, Exercise, exercise
from adokernels.course.figures import figures, speed_of_light_table
from adokernels.course.filter_charts import (
    speedups_of_devices,
    timeline,
    times_of_application,
    utilisation_plane,
)
from adokernels.course.in_flight_charts import in_flight_chart, register_chart
from adokernels.course.loads_in_flight import InnerLoop, inner_loop_table, inner_loops
from adokernels.course.models import model_beside_counters, modelled
from adokernels.course.predictions import predicted
from adokernels.course.priorities import possible_gain, priorities, ranks
from adokernels.course.published.figure import Published
from adokernels.course.steps import between, libraries, step
from adokernels.course.strides import stride_chart
from adokernels.course.text import Text, say, table
from adokernels.course.tile_picture import draw_tile_transpose

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
