-- Records of a long log that tell of what is no API.
UPDATE staged SET problem = $reason WHERE problem IS NULL AND api IN (SELECT unnest($names::VARCHAR[]))
