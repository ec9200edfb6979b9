"""How chains run: chunks, executors, transport to other processes, traces, checkpoints, progress, interrupts."""
