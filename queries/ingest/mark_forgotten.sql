-- Records of users who were forgotten are not stored; nothing is listed of them.
UPDATE staged SET problem = '' WHERE problem IS NULL AND digest IN (SELECT digest FROM forgotten_user)
