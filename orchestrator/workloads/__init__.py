"""Programs that the Python of a run starts, without the rest of teralog.

Some train models. Others check the arguments of a run, or bind its ranks to cores.
"""
