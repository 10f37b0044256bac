"""Items of "Accelerating HPC Applications with NVIDIA Nsight Compute Roofline Analysis"."""

from __future__ import annotations

from documents.row import Document, Row

_V100 = "05: The published steps on a V100"
_HERE = "05: The same steps here"
_BOTH = "05: The V100's results and the results here"
_COUNTED = "gpp-counted"

ROWS = (
    Row(
        "E1",
        "The roofline model: arithmetic intensity and FLOPs per second.",
        ("ado.roofline", "05: What is the limit?"),
    ),
    Row(
        "E2",
        "The roofline section of the profiler.",
        ("ado.roofline", "adokernels profile"),
        note="The chart is drawn from counters. It needs no section of the profiler.",
    ),
    Row(
        "E3",
        "The mini-application GPP of BerkeleyGW.",
        ("gpp[collapse3]", "05: The physics and the loops"),
    ),
    Row(
        "E4",
        "The triple loop, and the order of its indices in memory.",
        ("05: The physics and the loops", "gpp[collapse3]"),
    ),
    Row(
        "E5",
        "The baseline: all three loops collapsed.",
        ("gpp[collapse3]", _HERE),
        ("collapse3.seconds",),
        note="Published with item E9.",
    ),
    Row(
        "E6",
        "Arithmetic intensity of the baseline, and the balance of the machine.",
        (_V100, "ado.roofline"),
        ("collapse3.intensity_DRAM", "machine balance"),
    ),
    Row(
        "E7",
        "The point of the single-precision operations.",
        ("ado.Profile",),
        ("collapse3.flops_fp32", "collapse3.flops_fp64"),
        stored=_COUNTED,
    ),
    Row(
        "E8",
        "Why the loop over bands goes inside: it has the largest stride.",
        ("gpp[bands_inside]", _V100),
        ("collapse3.load_sectors_per_request", "bands_inside.load_sectors_per_request"),
    ),
    Row(
        "E9",
        "Step 1: collapse two loops. The kernel becomes slower.",
        ("gpp[bands_inside]", _HERE),
        ("bands_inside.seconds", "collapse3 > bands_inside"),
    ),
    Row(
        "E10",
        "Utilisation of memory before and after step 1.",
        ("ado.speed_of_light", _V100),
        ("collapse3.memory_sol", "bands_inside.memory_sol"),
    ),
    Row(
        "E11",
        "After step 1 the kernel is compute-bound.",
        (_BOTH, "ado.limiter"),
        ("bands_inside.intensity_DRAM", "bands_inside.limiter"),
    ),
    Row(
        "E12",
        "Step 3: reciprocals instead of complex divisions, squared moduli instead of moduli.",
        ("gpp[reciprocal]", "gpp[squared_moduli]", _HERE),
        ("frequency_outside > reciprocal", "reciprocal > squared_moduli"),
    ),
    Row(
        "E13",
        "Rate, intensity and time after step 3.",
        ("gpp[squared_moduli]", _BOTH),
        (
            "frequency_outside.flops_per_second",
            "squared_moduli.flops_per_second",
            "frequency_outside > squared_moduli",
            "squared_moduli.intensity_DRAM",
        ),
    ),
    Row(
        "E14",
        "Sampled warps of the lines, and the stall reason wait, before and after step 3.",
        ("ado.warp_states", "ado.hotspots"),
        ("frequency_outside.stall_wait", "reciprocal.stall_wait", "squared_moduli.stall_wait"),
    ),
    Row(
        "E15",
        "After step 3 the kernel is memory-bound again, which happens often.",
        (_BOTH, "ado.limiter"),
        ("squared_moduli.limiter",),
        note="On an H200, it stays compute-bound.",
    ),
    Row(
        "E16",
        "The hierarchical roofline: intensities with the bytes of each cache.",
        ("ado.roofline", _HERE),
        ("squared_moduli.intensity_L1", "squared_moduli.intensity_L2"),
    ),
    Row(
        "E17",
        "The roofs of L1 and L2.",
        ("ado.roofline", "ado.machine"),
        ("machine L1", "machine L2"),
    ),
    Row(
        "E18",
        "A section file that adds the hierarchical roofline to the profiler.",
        ("ado.roofline",),
        cannot="the profiler is not used; the chart is drawn from the same counters",
    ),
    Row(
        "E19",
        "How to read the hierarchy: each level has its own intensity.",
        ("ado.roofline", _HERE),
        (
            "squared_moduli.intensity_L1",
            "squared_moduli.intensity_L2",
            "squared_moduli.intensity_DRAM",
        ),
    ),
    Row(
        "E20",
        "Summary: the roof above a kernel tells what to look at next.",
        ("ado.diagnose", "docs/diagnosis.md"),
        ("collapse3.next_step",),
    ),
    Row(
        "E21",
        "Knowing when to stop.",
        ("05: Fewer FLOPs, not more FLOPs per second", "gpp[two_rows]"),
        ("two_rows.seconds", "collapse3 > two_rows"),
    ),
    Row(
        "E22",
        "FLOPs counted by the profiler.",
        ("ado.Profile", _HERE),
        ("collapse3.flops", "collapse3.executed_flops"),
        stored=_COUNTED,
    ),
    Row(
        "E23",
        "The other steps of the repository: frequencies outside, blocks of 512 threads.",
        ("gpp[frequency_outside]", "gpp[large_blocks]"),
        ("bands_inside > frequency_outside", "swapped_indices > large_blocks"),
    ),
    Row(
        "E24",
        "Further reading: papers and the documentation of NERSC.",
        (_V100,),
        cannot="the lists of references are not repeated",
    ),
)

DOCUMENT = Document(
    letter="E",
    count=24,
    title="Accelerating HPC Applications with NVIDIA Nsight Compute Roofline Analysis",
    address=(
        "https://developer.nvidia.com/blog/accelerating-hpc-applications-with-nsight-compute-"
        "roofline-analysis/"
    ),
    stored="gpp-si214",
    rows=ROWS,
)
