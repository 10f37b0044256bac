"""Checks of a pipeline's stages when its ladder is built, by a small compiled C++ program."""

import subprocess

from test_threads import compiled

import adokernels as ado

PROGRAM = """
#include <cstdio>
#include <stdexcept>

#include "routines/edge_detect_stages.hpp"

using namespace ado;

constexpr Variant<Grayscale> kGrayscale[] = {{.name = "a", .changes = ""}};
constexpr Variant<GaussianBlur> kBlur[] = {
    {.name = "c", .changes = "", .ceiling = true},
    {.name = "b", .changes = "", .why_not = [](const GaussianBlur& p) -> const char* {
       return p.cols() < 8 ? "fewer than 8 columns" : nullptr;
     }}};
constexpr Variant<Sobel> kSobel[] = {{.name = "a", .changes = ""}, {.name = "d", .changes = ""}};

int main() {
  const FilterLadders filters{ladder_of(kGrayscale), ladder_of(kBlur), ladder_of(kSobel)};
  const Stages good = filter_stages("a", "b", "d");
  Stages swapped = good;
  std::swap(swapped[1], swapped[2]);
  for (const Stages& stages :
       {good, filter_stages("a", "x", "d"), filter_stages("a", "b", "b"),
        filter_stages("a", "c", "d"), filter_stages("a", nullptr, "d"), swapped}) {
    const Variant<EdgeDetect> pipelines[] = {{.name = "single", .changes = ""},
                                             {.name = "pipeline", .changes = "", .stages = stages}};
    try {
      with_checked_stages(ladder_of(pipelines), filters);
      std::puts("built");
    } catch (const std::logic_error& error) {
      std::puts(error.what());
    }
  }
  for (const std::int64_t cols : {7, 8}) {
    Array out{.data = nullptr, .type = kUint8, .rank = 2, .shape = {5, cols}, .stride = {cols, 1}};
    const char* reason = why_not_stages({.rgba = out, .out = out}, good, filters);
    std::puts(reason != nullptr ? reason : "runs");
  }
}
"""

ANSWERS = """\
built
edge_detect[pipeline]: its stage gaussian_blur[x] does not exist
edge_detect[pipeline]: its stage sobel[b] does not exist
edge_detect[pipeline]: its stage gaussian_blur[c] is a ceiling
edge_detect[pipeline]: its stage gaussian_blur[?] is missing
edge_detect[pipeline]: its stage sobel[d] is of the wrong routine
fewer than 8 columns
runs
"""


def test_stages_are_checked_when_the_ladder_is_built(tmp_path):
    program = compiled(tmp_path, PROGRAM, "pipeline.cpp")
    assert subprocess.check_output([program], text=True) == ANSWERS


def test_every_stage_is_a_variant_of_the_same_device():
    for routine in ado.routines.values():
        for pipeline in routine:
            for stage in (ado.routines[name][variant] for name, variant in pipeline.stages):
                assert stage.device == pipeline.device
                assert not stage.ceiling
