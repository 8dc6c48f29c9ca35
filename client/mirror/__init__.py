"""Copies topics of one or several clusters into another, record by record and place by place."""
