"""Year first, 24 hours, and in which time zone: all times are UTC."""

DATETIME_FORMAT = "Y-m-d H:i:s T"
DATE_FORMAT = "Y-m-d"
TIME_FORMAT = "H:i:s"
