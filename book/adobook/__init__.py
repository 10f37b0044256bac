"""Code shared by the notebooks: text, tables and charts. They import it as `course`."""

from adobook.charts import draw_latency as draw_latency
from adobook.charts import draw_tile_transpose as draw_tile_transpose
from adobook.charts import draw_windows as draw_windows
from adobook.charts import stride_chart as stride_chart
from adobook.figures import figures as figures
from adobook.figures import ranks as ranks
from adobook.iteration import Factors as Factors
from adobook.iteration import folded as folded
from adobook.iteration import proposal as proposal
from adobook.iteration import time_factors as time_factors
from adobook.models import gathered as gathered
from adobook.models import model_beside_counters as model_beside_counters
from adobook.models import modelled as modelled
from adobook.published import Published as Published
from adobook.steps import between as between
from adobook.steps import predicted as predicted
from adobook.steps import step as step
from adobook.text import say as say
from adobook.text import table as table
