SELECT {columns} FROM {relation} WHERE number = {number}
