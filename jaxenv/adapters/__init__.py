"""The interfaces of other libraries over jaxenv's environments. Import the one you want: nothing is loaded
here.
"""
