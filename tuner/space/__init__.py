"""A task's schedules as arrays: drawn, varied and judged by the thousand without the compiler."""
