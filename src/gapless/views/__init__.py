"""What people and programs are shown: one struct for a table, for JSON and for HTTP.

A view is a frozen struct, made by a pure function from the values of the layers below. Its field
names are the keys of the JSON documents, and so a contract: `docs/reference/json.md` describes
them, and a test pins them. Nothing here prints, asks or reads a clock, and nothing here knows
which interface shows a view.
"""
