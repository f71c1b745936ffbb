"""Requests to other services at the end of a job: where they may go, and how they are sent."""
