"""Other people's training libraries: each integration is one file, and is imported only by who asks
for it.
"""
