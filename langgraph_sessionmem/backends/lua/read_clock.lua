-- The server's time with the offset, in milliseconds.
return text(clock())
