def reading_handlers(node):
    return {}
