from paddock import group_grader


@group_grader
def grade(context, sample, trajectories):
    return None
