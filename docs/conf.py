"""Configuration of Sphinx. ``make docs`` copies the documents to build/docs/source and runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import adokernels as ado

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "adokernels"
author = "The adokernels authors"
project_copyright = author
version = release = ado.__version__

extensions = [
    "mathml",
    "myst_nb",
    "records",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
]

# Documents: headings have the same anchors as on GitHub.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "html_image"]
myst_heading_anchors = 6
nb_execution_mode = "off"
nb_render_markdown_format = "myst"
html_math_renderer = "mathml"

# API reference.
autodoc_member_order = "groupwise"
autodoc_default_options = {
    "members": True,
    "inherited-members": "Exception,RuntimeError,str,tuple,dict,Generic,Protocol",
}
autodoc_typehints = "signature"
napoleon_google_docstring = False
# Attributes are listed like parameters: their names must not link to attributes of other classes.
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
add_module_names = False
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

# Pages: all assets are local.
html_theme = "furo"
html_title = f"adokernels {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
