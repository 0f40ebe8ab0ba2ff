-- Codes of users with the sums of the words of some APIs' values; users without any value are left out.
SELECT {columns}, {high} AS high, {low} AS low FROM {users} AS coded_user {joins} WHERE {seen} > 0
