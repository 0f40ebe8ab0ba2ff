SELECT place, lacking, size AS smallest, size AS largest, size * number AS inside FROM counted
