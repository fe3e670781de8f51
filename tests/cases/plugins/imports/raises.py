def table():
    return {}["missing at import"]


TABLE = table()
