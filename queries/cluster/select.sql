SELECT {columns} FROM {relation} {joins}
