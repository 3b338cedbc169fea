-- What was measured of a collection as a whole, as text. Like the other columns it is seen and written under the row
-- security of the table and with the rights on it.

ALTER TABLE collections ADD COLUMN calibration text NOT NULL DEFAULT '';
