def grader(context, sample, trajectories):
    return None
