from paddock import group_grader

def grader(context, sample, trajectories)
    return None
