-- Conversion of what the node stores in its own form to JSON, for the view semq_inbox.

-- A stored envelope (semq.engine.stored_envelopes). Values that are the defaults are absent. Zero characters, which Postgres cannot
-- store in texts, become U+FFFD; the sequence \u0000 is one only if the number of backslashes is odd.
CREATE OR REPLACE FUNCTION semq_envelope(stored bytea) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT CASE WHEN position('\u0000' IN j.text) = 0 THEN j.text
        ELSE regexp_replace(j.text, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') END::jsonb
    FROM (SELECT convert_from(stored, 'UTF8') AS text) j
$$;

-- The text of bytes; hexadecimal if they are not UTF-8. Zero characters become U+FFFD.
CREATE OR REPLACE FUNCTION semq_text(part bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN convert_from(CASE WHEN position('\x00'::bytea IN part) = 0 THEN part ELSE
        decode(replace(regexp_replace(encode(part, 'hex'), '(..)', '\1 ', 'g'), '00 ', 'efbfbd '), 'hex') END, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire THEN
    RETURN encode(part, 'hex');
END $$;

-- A number of AMQP by its letter. Floats that JSON does not have are null. Powers of two are multiplied in two steps, because
-- Postgres refuses a power that is subnormal.
CREATE OR REPLACE FUNCTION semq_number(letter text, part bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    is_negative boolean := letter IN ('b', 's', 'I', 'l', 'L', 'f', 'd') AND get_byte(part, 0) > 127;
    fill text := CASE WHEN is_negative AND letter NOT IN ('f', 'd') THEN 'f' ELSE '0' END;
    bits bigint := ('x' || lpad(encode(part, 'hex'), 16, fill))::bit(64)::bigint;
    digits int := CASE letter WHEN 'f' THEN 23 WHEN 'd' THEN 52 END;
    mask int := CASE letter WHEN 'f' THEN 255 ELSE 2047 END;
    biased int;
    power int;
BEGIN
    IF digits IS NULL THEN
        RETURN to_jsonb(bits + CASE WHEN letter = 'T' AND bits < 0 THEN 18446744073709551616 ELSE 0::numeric END);
    END IF;
    biased := ((bits >> digits) & mask)::int;
    IF biased = mask THEN
        RETURN 'null';
    END IF;
    power := greatest(biased, 1) - digits - mask / 2;
    RETURN to_jsonb(
        ((bits & (1::bigint << digits) - 1) + CASE WHEN biased > 0 THEN 1::bigint << digits ELSE 0 END)::float8
        * 2::float8 ^ greatest(power, -1000) * 2::float8 ^ least(power + 1000, 0) * CASE WHEN is_negative THEN -1 ELSE 1 END
    );
END $$;

-- The headers of an application in the form of AMQP (semq.amqp.wire): name, letter and value of each. Decimals are texts,
-- timestamps numbers, bytes hexadecimal texts, and so are texts that are not UTF-8. Without names: the members of an array. Values
-- are collected in an array, because appending to a jsonb copies all of it.
CREATE OR REPLACE FUNCTION semq_fields(data bytea, named boolean DEFAULT true) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    place int := 0;
    letter text;
    width int;
    names text[] := '{}';
    items jsonb[] := '{}';
    number int := 0;
    part bytea;
    value jsonb;
BEGIN
    WHILE place < length(data) LOOP
        number := number + 1;
        IF named THEN
            width := get_byte(data, place);
            names[number] := convert_from(substring(data FROM place + 2 FOR width), 'UTF8');
            place := place + 1 + width;
        END IF;
        letter := chr(get_byte(data, place));
        place := place + 1;
        IF letter IN ('S', 'x', 'F', 'A') THEN
            width := ('x' || encode(substring(data FROM place + 1 FOR 4), 'hex'))::bit(32)::int;
            place := place + 4;
        ELSE
            width := CASE letter
                WHEN 't' THEN 1 WHEN 'b' THEN 1 WHEN 'B' THEN 1 WHEN 's' THEN 2 WHEN 'u' THEN 2 WHEN 'I' THEN 4 WHEN 'i' THEN 4
                WHEN 'f' THEN 4 WHEN 'l' THEN 8 WHEN 'L' THEN 8 WHEN 'd' THEN 8 WHEN 'T' THEN 8 WHEN 'D' THEN 5 WHEN 'V' THEN 0
            END;
        END IF;
        IF width IS NULL OR width < 0 OR place + width > length(data) THEN
            RAISE EXCEPTION 'SEMQ-1223 a header cannot be read' USING ERRCODE = 'data_corrupted';
        END IF;
        part := substring(data FROM place + 1 FOR width);
        place := place + width;
        CASE letter
            WHEN 'S' THEN value := to_jsonb(semq_text(part));
            WHEN 'x' THEN value := to_jsonb(encode(part, 'hex'));
            WHEN 't' THEN value := to_jsonb(get_byte(part, 0) <> 0);
            WHEN 'V' THEN value := 'null';
            WHEN 'F' THEN value := semq_fields(part);
            WHEN 'A' THEN value := semq_fields(part, false);
            WHEN 'D' THEN value := to_jsonb((('x' || encode(substring(part FROM 2), 'hex'))::bit(32)::int
                * ('1e-' || get_byte(part, 0))::numeric)::text);
            ELSE value := semq_number(letter, part);
        END CASE;
        items[number] := value;
    END LOOP;
    IF named THEN
        RETURN coalesce((SELECT jsonb_object_agg(m.name, m.item) FROM unnest(names, items) AS m (name, item)), '{}');
    END IF;
    RETURN to_jsonb(items);
END $$;

REVOKE ALL ON FUNCTION semq_envelope, semq_text, semq_number, semq_fields FROM PUBLIC;
