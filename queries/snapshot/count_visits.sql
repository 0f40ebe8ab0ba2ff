SELECT count(*) FROM visit WHERE {windows/inside}
