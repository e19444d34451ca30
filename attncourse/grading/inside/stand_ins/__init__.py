"""What learner code sees in place of the course's package while it is graded."""
