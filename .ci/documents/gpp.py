"""Items of "Accelerating HPC Applications with NVIDIA Nsight Compute Roofline Analysis"."""

from __future__ import annotations

from documents.row import Document, Row

_COUNTED = "gpp-counted"

ROWS = (
    Row(
        "E1",
        "The roofline model: arithmetic intensity and FLOPs per second.",
        (
            "05: The roofline model",
            "ado.roofline",
        ),
    ),
    Row(
        "E2",
        "The roofline section of the profiler.",
        (
            "05: The roofline section of the profiler",
            "ado.roofline",
            "adokernels profile --ncu",
        ),
        note="The chart is drawn from counters. A report of the profiler has its own chart.",
    ),
    Row(
        "E3",
        "The mini-application GPP of BerkeleyGW.",
        (
            "05: The physics",
            "gpp[collapse3]",
        ),
    ),
    Row(
        "E4",
        "The triple loop, and the order of its indices in memory.",
        (
            "05: The loops",
            "gpp[collapse3]",
        ),
    ),
    Row(
        "E5",
        "The baseline: all three loops collapsed.",
        (
            "05: The baseline: one loop instead of three",
            "gpp[collapse3]",
        ),
        ("collapse3.seconds",),
        note="Published with item E9.",
    ),
    Row(
        "E6",
        "Arithmetic intensity of the baseline, and the balance of the machine.",
        (
            "05: Is the baseline memory-bound?",
            "ado.roofline",
        ),
        ("collapse3.intensity_DRAM", "machine balance"),
    ),
    Row(
        "E7",
        "The point of the single-precision operations.",
        (
            "05: The single-precision point",
            "ado.Profile",
        ),
        ("collapse3.flops_fp32", "collapse3.flops_fp64"),
        stored=_COUNTED,
    ),
    Row(
        "E8",
        "Why the loop over bands goes inside: it has the largest stride.",
        (
            "05: Why the bands go inside: strides",
            "gpp[bands_inside]",
        ),
        ("collapse3.load_sectors_per_request", "bands_inside.load_sectors_per_request"),
    ),
    Row(
        "E9",
        "Step 1: collapse two loops. The kernel becomes slower.",
        (
            "05: Step 1: the loop over bands inside each thread",
            "05: Slower and compute-bound in the post, and here?",
            "gpp[bands_inside]",
        ),
        ("bands_inside.seconds", "collapse3 > bands_inside"),
    ),
    Row(
        "E10",
        "Utilisation of memory before and after step 1.",
        (
            "05: Speed of light: memory from 34 % to 11 %",
            "ado.speed_of_light",
        ),
        ("collapse3.memory_sol", "bands_inside.memory_sol"),
    ),
    Row(
        "E11",
        "After step 1 the kernel is compute-bound.",
        (
            "05: Slower and compute-bound in the post, and here?",
            "ado.limiter",
        ),
        ("bands_inside.intensity_DRAM", "bands_inside.limiter"),
    ),
    Row(
        "E12",
        "Step 3: reciprocals instead of complex divisions, squared moduli instead of moduli.",
        (
            "05: Reciprocals instead of complex divisions",
            "05: Squared moduli instead of absolute values",
            "gpp[reciprocal]",
            "gpp[squared_moduli]",
        ),
        ("frequency_outside > reciprocal", "reciprocal > squared_moduli"),
    ),
    Row(
        "E13",
        "Rate, intensity and time after step 3.",
        (
            "05: FLOPs per second, intensity and time",
            "gpp[squared_moduli]",
        ),
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
        (
            "05: Where the warps are sampled",
            "ado.warp_states",
            "ado.hotspots",
        ),
        (
            "frequency_outside.stall_wait",
            "reciprocal.stall_wait",
            "squared_moduli.stall_wait",
            "course/gpp-samples-frequency_outside: wait",
            "course/gpp-samples-reciprocal: wait",
            "course/gpp-samples-squared_moduli: wait",
        ),
    ),
    Row(
        "E15",
        "After step 3 the kernel is memory-bound again, which happens often.",
        (
            "05: FLOPs per second, intensity and time",
            "05: The hierarchical roofline",
            "ado.limiter",
        ),
        ("squared_moduli.limiter",),
        note="On an H200, it stays compute-bound.",
    ),
    Row(
        "E16",
        "The hierarchical roofline: intensities with the bytes of each cache.",
        (
            "05: The hierarchical roofline",
            "ado.roofline",
        ),
        ("squared_moduli.intensity_L1", "squared_moduli.intensity_L2"),
    ),
    Row(
        "E17",
        "The roofs of L1 and L2.",
        (
            "05: L1, L2 and DRAM on this GPU",
            "ado.roofline",
            "ado.machine",
        ),
        ("machine L1", "machine L2"),
    ),
    Row(
        "E18",
        "A section file that adds the hierarchical roofline to the profiler.",
        (
            "05: The section file, and which of our metrics replace it",
            "ado.roofline",
        ),
        note="The table compares the metrics. The profiler now contains the section itself.",
    ),
    Row(
        "E19",
        "How to read the hierarchy: each level has its own intensity.",
        (
            "05: How to read the hierarchy",
            "ado.roofline",
        ),
        (
            "squared_moduli.intensity_L1",
            "squared_moduli.intensity_L2",
            "squared_moduli.intensity_DRAM",
        ),
    ),
    Row(
        "E20",
        "Summary: the roof above a kernel tells what to look at next.",
        (
            "05: Iterate, and know when to stop",
            "05: Did each step go the same way?",
            "ado.diagnose",
            "docs/diagnosis.md",
        ),
        ("collapse3.next_step",),
    ),
    Row(
        "E21",
        "Knowing when to stop.",
        (
            "05: Iterate, and know when to stop",
            "05: The ceiling of the mix",
            "05: How much faster can it become?",
            "gpp[two_rows]",
        ),
        ("two_rows.seconds", "collapse3 > two_rows"),
    ),
    Row(
        "E22",
        "FLOPs counted by the profiler.",
        (
            "05: Counted FLOPs",
            "05: The ceiling of the mix",
            "ado.Profile",
        ),
        ("collapse3.flops", "collapse3.executed_flops"),
        note="The notebook compares them per iteration.",
        stored=_COUNTED,
    ),
    Row(
        "E23",
        "The other steps of the repository: frequencies outside, blocks of 512 threads.",
        (
            "05: Step 2: one launch per frequency",
            "05: Blocks of 512 threads",
            "05: The post's points and ours in one chart",
            "gpp[frequency_outside]",
            "gpp[large_blocks]",
        ),
        ("bands_inside > frequency_outside", "swapped_indices > large_blocks"),
    ),
    Row(
        "E24",
        "Further reading: papers and the documentation of NERSC.",
        ("05: Further reading",),
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
