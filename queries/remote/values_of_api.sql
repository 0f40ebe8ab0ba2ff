SELECT {columns} FROM dictionary WHERE number = {number}
