-- Users as a view shows them.
SELECT {columns} FROM {users} AS u {joins} WHERE {condition}
