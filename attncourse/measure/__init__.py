"""What attention costs: computed, counted in a run, and timed.

`cost` computes operations and bytes, `traffic` counts the bytes of a real run, `peak_memory` and
`bench` measure, `probes` ask the recorded graph, `kernel_report` asks the compiler.
"""
